--[[
RPCs that the end-to-end tests call. They run unmodified on Nakama and on throng, so that
the same test list checks both. Data comes in as JSON text in the payload and goes out the same way.
Nothing here is hostile: that is in hostile.lua, and the matches are in e2e_match.lua.
--]]
local nk = require("nakama")

local function decoded(payload)
  if payload == nil or payload == "" then
    return {}
  end
  return nk.json_decode(payload)
end

-- The payload, unchanged; nothing in, nothing out.
local function echo(_context, payload)
  return payload
end

-- What the server tells a function about its caller.
local function context(ctx, payload)
  return nk.json_encode({
    execution_mode = ctx.execution_mode,
    user_id = ctx.user_id,
    username = ctx.username,
    session_id = ctx.session_id,
    vars = ctx.vars,
    query_params = ctx.query_params,
    lang = ctx.lang,
    payload_type = type(payload),
    payload = payload,
  })
end

-- An error with a code of the script's choice.
local function fail(_ctx, payload)
  local wanted = decoded(payload)
  error({ wanted.message, wanted.code })
end

-- An error that is only a text: the position before it must not reach the client.
local function throw(_ctx, _payload)
  error("the script gave up")
end

local function nothing(_ctx, _payload)
  return nil
end

local function wrong_type(_ctx, _payload)
  return { not_a = "string" }
end

-- Characters that the wrapped answer has to escape, and some that need several bytes.
local function markup(_ctx, _payload)
  return '{"text":"<b>&\\"é日本🎮</b>"}'
end

-- Keeps the processor busy for the given time; used to see what a slow call holds up.
local function slow(_ctx, payload)
  local wish = decoded(payload)
  local until_ms = nk.time() + wish.ms
  if wish.writes then
    nk.storage_write({ { collection = "slow", key = nk.uuid_v4(), value = { ms = wish.ms } } })
  end
  while nk.time() < until_ms do
  end
  return "{}"
end

-- Writes, and then has much text encrypted, which nothing can interrupt.
local function write_and_encrypt(_ctx, payload)
  local wish = decoded(payload)
  local text = string.rep("x", wish.bytes)
  for _ = 1, wish.rounds do
    nk.storage_write({ { collection = "encrypted", key = nk.uuid_v4(), value = {} } })
    nk.aes256_encrypt(text, string.rep("k", 32))
  end
  return "{}"
end

-- How many objects "e2e_slow" has written.
local function count_slow(_ctx, _payload)
  return nk.json_encode({ count = #nk.storage_list(nil, "slow", 100) })
end

local function create_match(_ctx, payload)
  return nk.json_encode({ match_id = nk.match_create("e2e_match", decoded(payload)) })
end

local function create_unknown_match(_ctx, _payload)
  return nk.json_encode({ match_id = nk.match_create("no_such_module", {}) })
end

local function list_matches(_ctx, payload)
  local p = decoded(payload)
  local found = nk.match_list(p.limit, p.authoritative, p.label, p.min_size, p.max_size, p.query)
  return nk.json_encode({ matches = found })
end

local function get_match(_ctx, payload)
  return nk.json_encode({ match = nk.match_get(decoded(payload).match_id) })
end

local function signal_match(_ctx, payload)
  local p = decoded(payload)
  return nk.json_encode({ answer = nk.match_signal(p.match_id, p.data) })
end

local function disconnect(ctx, payload)
  nk.session_disconnect(decoded(payload).session_id or ctx.session_id)
  return "{}"
end

local function ban(_ctx, payload)
  nk.users_ban_id({ decoded(payload).user_id })
  return "{}"
end

-- An answer of the wanted length, longer than a request could be.
local function repeated(_ctx, payload)
  local p = decoded(payload)
  return string.rep(p.text, p.times)
end

-- Encodings and digests whose results are known in advance to the test.
local function digest(_ctx, payload)
  local text = decoded(payload).text
  return nk.json_encode({
    base64 = nk.base64_encode(text),
    base16 = nk.base16_encode(text),
    md5 = nk.md5_hash(text),
    sha256 = nk.sha256_hash(text),
    hmac = nk.base64_encode(nk.hmac_sha256_hash(text, "key")),
    uuid_length = #nk.uuid_v4(),
    bits = bit32.band(12, 10),
  })
end

local function storage(ctx, payload)
  local p = decoded(payload)
  local acks = nk.storage_write({
    { collection = "e2e", key = p.key, user_id = ctx.user_id, value = p.value },
  })
  local rows = nk.storage_read({ { collection = "e2e", key = p.key, user_id = ctx.user_id } })
  return nk.json_encode({
    ack = { collection = acks[1].collection, key = acks[1].key, version = acks[1].version },
    value = rows[1].value,
    version = rows[1].version,
  })
end

local function storage_read(ctx, payload)
  local wanted = {}
  for _, key in ipairs(decoded(payload).keys) do
    wanted[#wanted + 1] = { collection = "e2e", key = key, user_id = ctx.user_id }
  end
  local rows = {}
  for _, row in ipairs(nk.storage_read(wanted)) do
    rows[#rows + 1] = { key = row.key, value = row.value }
  end
  return nk.json_encode({ rows = rows })
end

-- Reads an object that nobody has written: a call for the database.
local function read_nothing(ctx, _payload)
  return tostring(#nk.storage_read({ { collection = "e2e", key = "nothing", user_id = ctx.user_id } }))
end

-- Counts the members of a stream that nobody is in: a call that waits for a room.
local function count_nobody(_ctx, _payload)
  return tostring(nk.stream_count({ mode = 100, label = "nobody" }))
end

-- What a script can reach of the machine, and what it can change for others. A global that is set by a
-- forgotten `local` is common in modules that exist, so that must keep working.
local function globals(_ctx, _payload)
  return nk.json_encode({
    io = type(io),
    debug = type(debug),
    os_execute = type(os.execute),
    os_time = type(os.time),
    loads_libraries = type(package) == "table" and pcall(package.loadlib, "libc.so.6", "system"),
    changes_libraries = pcall(function()
      table.e2e_leaked = 1
    end),
    sets_globals = pcall(function()
      e2e_leaked = 1
    end),
  })
end

for id, fn in pairs({
  e2e_echo = echo,
  e2e_context = context,
  e2e_fail = fail,
  e2e_throw = throw,
  e2e_nothing = nothing,
  e2e_wrong_type = wrong_type,
  e2e_markup = markup,
  e2e_slow = slow,
  e2e_write_and_encrypt = write_and_encrypt,
  e2e_count_slow = count_slow,
  e2e_create_match = create_match,
  e2e_create_unknown_match = create_unknown_match,
  e2e_list_matches = list_matches,
  e2e_get_match = get_match,
  e2e_signal_match = signal_match,
  e2e_disconnect = disconnect,
  e2e_ban = ban,
  e2e_repeat = repeated,
  e2e_digest = digest,
  e2e_storage = storage,
  e2e_storage_read = storage_read,
  e2e_read_nothing = read_nothing,
  e2e_count_nobody = count_nobody,
  e2e_globals = globals,
  E2E_MixedCase = echo,
}) do
  nk.register_rpc(fn, id)
end
