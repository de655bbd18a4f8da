"""How it is measured and shown: rounds in turn, ledgers, bars, records, charts."""
