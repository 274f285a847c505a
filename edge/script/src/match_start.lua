-- How a match begins, under the name [throng]: loads its module and runs `match_init`.

local native, entry, fail, handler, require, begin, keep = ...

local floor, pairs, rawget, rawset, select = math.floor, pairs, rawget, rawset, select
local type, xpcall, env, node = type, xpcall, native.env, native.node

local MATCH_LABEL_BYTES_MAX = 2048
local init, context

-- Nakama wants all seven callbacks; what one that is not there would do is mostly plain.
local function same(_, _, _, kept)
  return kept
end

local callback_defaults = {
  match_init = false, match_loop = false,
  match_join_attempt = function(_, _, _, kept) return kept, true end,
  match_join = same, match_leave = same, match_terminate = same, match_signal = same,
}

function entry.match_open(module, match_id)
  context = {
    env = env, execution_mode = "match", node = node, version = native.version,
    match_id = match_id, match_node = node,
  }
  local ok, callbacks = xpcall(require, handler, module)
  if not ok then
    return fail(callbacks)
  end
  if type(callbacks) ~= "table" then
    return false, "match module must return a table containing the match callback functions"
  end
  -- What the module puts into its table later does not count.
  local opened = {}
  for name, default in pairs(callback_defaults) do
    local callback = rawget(callbacks, name)
    if callback == nil and default then
      rawset(callbacks, name, default)
      callback = default
    elseif type(callback) ~= "function" then
      return false, name .. " not found or not a function"
    end
    opened[name] = callback
  end
  init, opened.match_init = opened.match_init, nil
  begin(opened, context)
  return true
end

local function settle_init(ok, ...)
  if not ok then
    return fail((...))
  end
  -- Nakama looks at the values from the last to the first.
  local count = select("#", ...)
  local label = count > 0 and select(count, ...) or nil
  if type(label) ~= "string" then
    return false, "match_init returned unexpected third value, must be a label string"
  end
  if #label > MATCH_LABEL_BYTES_MAX then
    return false, "match_init returned invalid label, must be 2048 bytes or less"
  end
  local rate = count > 1 and select(count - 1, ...) or nil
  if type(rate) ~= "number" then
    return false, "match_init returned unexpected second value, must be a tick rate number"
  end
  rate = floor(rate)
  if not (rate >= 1 and rate <= 60) then
    return false, "match_init returned invalid tick rate, must be between 1 and 60"
  end
  if count < 3 then
    return false, "match_init returned unexpected first value, must be a state"
  end
  local new = (select(count - 2, ...))
  if new == nil then
    return false, "Match initial state must not be nil"
  end
  if count > 3 then
    return false,
      "match_init returned too many arguments, must be: state, tick rate number, label string"
  end
  keep(new)
  context.match_label, context.match_tick_rate = label, rate
  return true, rate, label
end

function entry.match_init(params)
  local match_init = init
  -- What is no longer needed; Rust holds this function until it has run.
  entry.match_open, entry.match_init, init = nil, nil, nil
  return settle_init(xpcall(match_init, handler, context, params))
end
