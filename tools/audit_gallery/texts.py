"""What each model is, and two sentences on what its audit taught."""

TEXTS = {
    "digits_cnn": (
        "A CNN for digits",
        "A small CNN with zero padding, trained on 1,200 upright digits, under quarter turns.",
        "",
    ),
    "ensemble": ("The ensemble of eight such CNNs", "Their mean.", ""),
    "steerable": ("A steerable network", "Regular features under C8 on the plane, made with escnn, over a pipe.", ""),
    "orientation": ("A classifier of text orientation", "PP-OCR's, from a wheel of RapidOCR.", ""),
    "potential": ("A potential", "ASE's effective medium theory on rattled metals.", ""),
    "sound": ("A detector of speech", "Silero VAD, from its wheel, on synthetic vowels whose sign is flipped.", ""),
}
