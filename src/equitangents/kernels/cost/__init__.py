"""Cost of kernels before they are computed: work counted literally, time from a calibration, memory as planned."""
