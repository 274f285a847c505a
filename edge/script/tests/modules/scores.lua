-- Ranking with comparators that are not strict, ties included.
local nk = require("nakama")
nk.register_rpc(function()
  local players = {}
  for i = 1, 200 do players[#players + 1] = { id = "p" .. i, score = (i * 37) % 10, joined = i } end
  table.sort(players, function(a, b) return a.score >= b.score end)
  for i = 2, #players do assert(players[i - 1].score >= players[i].score) end
  table.sort(players, function(a, b)
    if a.score == b.score then return a.joined < b.joined end
    return a.score > b.score
  end)
  local rank, last, shown = 0, nil, {}
  for i, player in ipairs(players) do
    if player.score ~= last then rank, last = i, player.score end
    if i <= 3 then table.insert(shown, ("%2d. %-5s %5.1f"):format(rank, player.id, player.score)) end
  end
  assert(table.concat(shown, "|") == " 1. p7      9.0| 1. p17     9.0| 1. p27     9.0", table.concat(shown, "|"))
  return "ok"
end, "scores")
