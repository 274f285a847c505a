return { tick_rate = 5; max_players = 4, max_empty_ticks = 50, ["worlds"] = { "meadow", "cave" }, }
