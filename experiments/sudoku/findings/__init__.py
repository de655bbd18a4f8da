"""What is said of a trained model: the paper's table, horizons, predictors, equal losses, controls."""
