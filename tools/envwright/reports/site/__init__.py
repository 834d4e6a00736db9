"""The static site: a catalogue of the monorepo, made from declarations, READMEs and reports."""
