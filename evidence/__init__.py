"""Published measurements and the judgement of predictions by them: replay of runs, scores, fits."""
