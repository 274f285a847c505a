-- Calls any function of `nk` with arguments that nobody should pass, for the attack tests: as an RPC
-- function, and inside a callback of a match.

local nk = require("nakama")

local function deep()
  local value = {}
  for _ = 1, 20000 do
    value = { value }
  end
  return value
end

local function wide()
  local value = {}
  for key = 1, 5000 do
    value[key] = { user_id = key, collection = "c", key = "k", value = {} }
  end
  return value
end

local function cyclic()
  local value = { collection = "c", key = "k", user_id = "u" }
  value.value, value[1], value.metadata = value, value, value
  return value
end

local function angry()
  local function fail()
    error(setmetatable({}, { __tostring = error }))
  end
  return setmetatable({}, { __index = fail, __len = fail, __tostring = fail, __call = fail, __eq = fail })
end

-- Made when they are wanted: some are large.
local VALUES = {
  function() return nil end,
  function() return true end,
  function() return 0 end,
  function() return -1 end,
  function() return 0 / 0 end,
  function() return 1 / 0 end,
  function() return -1 / 0 end,
  function() return 0.5 end,
  function() return 2 ^ 31 end,
  function() return 2 ^ 53 + 1 end,
  function() return 2 ^ 63 end,
  function() return -(2 ^ 63) end,
  function() return 1e308 end,
  function() return "" end,
  function() return "x" end,
  function() return "0\0\255\254" end,
  function() return "00000000-0000-0000-0000-000000000000" end,
  function() return ("x"):rep(1000000) end,
  function() return ("\\u00e9["):rep(20000) end,
  function() return "SELECT 1; --" end,
  function() return {} end,
  function() return { 1, nil, 3, "x", [-1] = 2, [2 ^ 53] = 3 } end,
  function() return { collection = {}, key = 1, user_id = true, value = "x", metadata = 1, changeset = { a = "b" } } end,
  function() return { { collection = "c", key = ("k"):rep(100000), value = { 0 / 0 } } } end,
  deep,
  wide,
  cyclic,
  angry,
  function() return print end,
  function() return coroutine.create(deep) end,
  function() return nk end,
}

local ARGUMENTS_MAX = 8

-- How many calls returned, of how many.
local function try(name, index)
  local value, returned, made = VALUES[index](), 0, 0
  local function call(...)
    made = made + 1
    if pcall(nk[name], ...) then
      returned = returned + 1
    end
  end
  local all, one = {}, {}
  for count = 1, ARGUMENTS_MAX do
    all[count] = value
    call(unpack(all, 1, count))
    -- The last argument alone is odd.
    one[count] = value
    call(unpack(one, 1, count))
    one[count] = "x"
  end
  return returned .. " of " .. made
end

nk.register_rpc(function(_, payload)
  local params = nk.json_decode(payload)
  return try(params.name, params.index)
end, "arguments_try")

nk.register_rpc(function()
  return nk.match_create("arguments", {})
end, "arguments_create")

nk.register_rpc(function(_, payload)
  return nk.match_signal(nk.json_decode(payload).match, payload)
end, "arguments_signal")

nk.register_rpc(function()
  return tostring(#VALUES)
end, "arguments_count")

local M = {}

function M.match_init()
  return {}, 10, ""
end

function M.match_join_attempt(_, _, _, state)
  return state, true
end

local function same(_, _, _, state)
  return state
end

M.match_join, M.match_leave, M.match_loop, M.match_terminate = same, same, same, same

function M.match_signal(_, _, _, state, data)
  local params = nk.json_decode(data)
  return state, try(params.name, params.index)
end

return M
