"""Records of hardware, prices, models, engines and calibrations. Knows no other room."""
