"""The fuzzer: looped models drawn at random, written as source text, and compared with an oracle of untied steps."""
