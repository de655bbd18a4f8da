"""Tests of means, variances and dependence that hold for any sample size and any tails."""
