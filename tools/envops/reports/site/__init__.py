"""The static site: a catalogue of the monorepo, made from what is declared, documented and reported."""
