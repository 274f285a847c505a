-- Ways over a grid, with goto where others have continue and break 2.
local nk = require("nakama")
local function find(map, sx, sy, tx, ty)
  local open, seen, steps = { { sx, sy, 0 } }, {}, 0
  while #open > 0 do
    local x, y, d = unpack(table.remove(open, 1))
    steps = steps + 1
    if steps > 10000 then goto failed end
    if x == tx and y == ty then return d end
    for _, dir in ipairs({ { 1, 0 }, { -1, 0 }, { 0, 1 }, { 0, -1 } }) do
      local nx, ny = x + dir[1], y + dir[2]
      local row = map[ny]
      if not row then goto continue end
      if row:sub(nx, nx) ~= "." then goto continue end
      do
        local key = nx .. "," .. ny
        if seen[key] then goto continue end
        seen[key] = true
        open[#open + 1] = { nx, ny, d + 1 }
      end
      ::continue::
    end
  end
  ::failed::
  return nil
end
nk.register_rpc(function()
  local map = { "..#.", "..#.", "....", "#..." }
  assert(find(map, 1, 1, 4, 1) == 7 and find({ ".#." }, 1, 1, 3, 1) == nil)
  for i = 1, 3 do
    for j = 1, 3 do
      if i * j == 4 then goto out end
    end
  end
  error("unreachable")
  ::out::
  return "ok"
end, "path")
