"""Records of hardware, prices, models, engines and calibrations; imports no other room."""
