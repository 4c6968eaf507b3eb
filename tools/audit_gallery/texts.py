"""What each model is, and two sentences on what its audit taught."""

TEXTS = {
    "digits_cnn": (
        "A CNN for digits",
        "A small CNN with zero padding, trained on 1,200 upright digits, under quarter turns.",
        "Turned digits are other inputs to it, as nothing in its training or its layers says otherwise. The error "
        "starts in the first layer with weights, so that no change of padding mends it: that takes averaging, "
        "augmentation or other layers.",
    ),
    "ensemble": (
        "An ensemble of eight such CNNs",
        "The mean of eight of these networks from independent initialisations, on the same images, with their labels.",
        "Members agree in how they break the symmetry: the law of the mean puts the limit of infinitely many "
        "members far above the floor, so that more of them do not help. Members that are trained on turned images "
        "would.",
    ),
    "orientation": (
        "A classifier of text orientation",
        "The ONNX file with which RapidOCR decides whether a line of text stands on its head, on drawn lines of "
        "text. Half a turn should swap its two classes, `Labels([1, 0])`.",
        "On nine of ten drawn lines the class swaps as it should, and the probabilities are off by a third of their "
        "spread: where its confidence matters, ask it about both orientations and take the mean. As invariant it "
        "would have been called broken by six times as much: the rule by which outputs move is part of the question.",
    ),
    "potential": (
        "A potential",
        "The effective medium theory of ASE on rattled metals.",
        "A formula in double precision passes everything down to its rounding, and its forces are the gradient of "
        "its energy. Jumps at its cutoff are there, five orders below what dynamics notices, and are told apart "
        "from none at all.",
    ),
    "sound": (
        "A detector of speech",
        "Silero VAD, from its wheel, on synthetic vowels whose sign is flipped, its state carried from frame to frame.",
        "It does not care which way the membrane moves, to the last bit: it reads magnitudes of a Fourier "
        "transform, in which the sign is lost. A detector that reads samples would have to learn that.",
    ),
}
