-- Functions with which a game keeps its books, as the end-to-end tests call them: wallets with their ledger, changes
-- that happen together or not at all, writes that are tried again, and users and matches that are looked up.
local nk = require("nakama")

local function decoded(payload)
  return payload ~= nil and payload ~= "" and nk.json_decode(payload) or {}
end

-- Changes the caller's wallet as asked, and gives both wallets or the error.
local function pay(ctx, payload)
  local p = decoded(payload)
  local ok, updated, previous = pcall(nk.wallet_update, ctx.user_id, p.changes, p.metadata or {}, p.keep)
  if not ok then
    return nk.json_encode({ refused = true })
  end
  return nk.json_encode({ updated = updated, previous = previous })
end

-- The caller's wallet, and its ledger page by page.
local function books(ctx, payload)
  local items, pages, cursor = {}, 0, ""
  repeat
    local page
    page, cursor = nk.wallet_ledger_list(ctx.user_id, decoded(payload).limit or 100, cursor)
    for _, item in ipairs(page) do
      items[#items + 1] = { changeset = item.changeset, metadata = item.metadata, user_id = item.user_id }
    end
    pages = pages + 1
  until cursor == nil or cursor == "" or pages == 10
  return nk.json_encode({ wallet = nk.account_get_id(ctx.user_id).wallet, items = items, pages = pages })
end

-- Metadata, an object and the wallet in one go.
local function together(ctx, payload)
  local p = decoded(payload)
  local ok = pcall(
    nk.multi_update,
    { { user_id = ctx.user_id, metadata = { level = p.level } } },
    { { collection = "economy", key = "sword", user_id = ctx.user_id, value = { level = p.level }, version = p.version } },
    nil,
    { { user_id = ctx.user_id, changeset = { coins = p.coins }, metadata = {} } },
    true
  )
  local objects = nk.storage_read({ { collection = "economy", key = "sword", user_id = ctx.user_id } })
  local account = nk.account_get_id(ctx.user_id)
  return nk.json_encode({
    ok = ok,
    level = account.metadata.level,
    object = objects[1] and objects[1].value.level,
    coins = account.wallet.coins,
  })
end

-- Counts up with a write by somebody else between its first read and its write.
local function retry(ctx)
  local id = { collection = "economy", key = "visits", user_id = ctx.user_id }
  local tries = 0
  nk.storage_write_retry({ id }, function(objects)
    tries = tries + 1
    local object = objects[1]
    local count = object and object.value.count or 0
    if tries == 1 then
      nk.storage_write({ { collection = id.collection, key = id.key, user_id = id.user_id, value = { count = count + 10 } } })
    end
    local version = object and object.version or "*"
    return { { collection = id.collection, key = id.key, user_id = id.user_id, value = { count = count + 1 }, version = version } }
  end, 5)
  return nk.json_encode({ tries = tries, count = nk.storage_read({ id })[1].value.count })
end

local function random_users(_, payload)
  local ids = {}
  for at, user in ipairs(nk.users_get_random(decoded(payload).count)) do
    ids[at] = user.user_id
  end
  return nk.json_encode({ ids = ids })
end

local function sql_id(ctx)
  local rows = nk.sql_query("SELECT id, username FROM users WHERE username = $1", { ctx.username })
  return nk.json_encode({ id = rows[1].id, rows = #rows })
end

for id, fn in pairs({
  economy_pay = pay,
  economy_books = books,
  economy_together = together,
  economy_retry = retry,
  economy_random_users = random_users,
  economy_sql_id = sql_id,
}) do
  nk.register_rpc(fn, id)
end
