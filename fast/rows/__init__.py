"""Whose row is it: which example each row of a call belongs to, and that losses keep apart; proven, or by values."""
