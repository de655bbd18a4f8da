"""What keeps a pass right and harmless: the audit, the byte budget, the user's model restored."""
