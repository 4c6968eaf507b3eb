"""What each model is, and two sentences on what its audit taught."""

TEXTS = {
    "digits_cnn": (
        "A CNN for digits",
        "A small CNN with zero padding, trained on 1,200 upright digits, under quarter turns.",
        "Neither its training nor its layers relate a digit to its rotations. The error starts in the first layer "
        "with weights, so another padding cannot repair it; averaging, augmentation or other layers can.",
    ),
    "ensemble": (
        "An ensemble of eight such CNNs",
        "The mean of eight of these networks from independent initialisations, on the same images, with their labels.",
        "All members break the symmetry in the same way: the extrapolated error of infinitely many members is far "
        "above the floor, so more members do not help. Members trained on rotated images would.",
    ),
    "orientation": (
        "A classifier of text orientation",
        "The ONNX file with which RapidOCR decides whether a line of text is upside down, on drawn lines of "
        "text. Half a turn should swap its two classes, `Labels([1, 0])`.",
        "On nine of ten drawn lines the class swaps as it should, but the probabilities differ by a third of their "
        "spread: if its confidence matters, evaluate both orientations and take the mean. An audit for invariant "
        "outputs would report an error six times as large: the right `output_action` matters.",
    ),
    "potential": (
        "A potential",
        "The effective medium theory of ASE on rattled metals.",
        "A formula in double precision passes all tests down to rounding, and its forces are the negative gradient "
        "of its energy. The audit even finds the jumps at its cutoff, five orders of magnitude below the tolerance.",
    ),
    "sound": (
        "A detector of speech",
        "Silero VAD, from its wheel, on synthetic vowels whose sign is flipped, its state carried from frame to frame.",
        "Its outputs are invariant to the last bit: it reads magnitudes of a Fourier transform, which do not depend "
        "on the sign. A detector that reads samples would have to learn that.",
    ),
}
