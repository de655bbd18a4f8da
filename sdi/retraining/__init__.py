"""Retraining: a training run as data, what it changes to leave examples out of it, and scores judged by that."""
