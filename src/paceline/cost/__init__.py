"""How long it would take: compute, collectives, memory, and what each price rests on."""
