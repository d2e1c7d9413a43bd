"""Small exchanges with OpenRouter, made twice: with the service itself and with the stand-in, and compared.

cases    what is asked, as data
models   which models of a catalogue it is asked of
shape    what of an answer is compared
service  one of the two sides: makes an exchange, and says what came
run      all cases against both sides, within a limit of dollars
report   what people read of it
"""
