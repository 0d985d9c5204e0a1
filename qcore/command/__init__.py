"""The command line: arguments with units, answers, tables. It computes nothing itself."""
