-- A JSON library in plain Lua, with the usual tricks.
local nk = require("nakama")
local json = { _version = "0.1" }

local escapes = { ["\\"] = "\\", ["\""] = "\"", ["\b"] = "b", ["\f"] = "f", ["\n"] = "n", ["\r"] = "r", ["\t"] = "t" }
local function escape(c) return "\\" .. (escapes[c] or string.format("u%04x", c:byte())) end

local encode
local function encode_table(val, stack)
  local res = {}
  stack = stack or {}
  if stack[val] then error("circular reference") end
  stack[val] = true
  if rawget(val, 1) ~= nil or next(val) == nil then
    for _, v in ipairs(val) do table.insert(res, encode(v, stack)) end
    stack[val] = nil
    return "[" .. table.concat(res, ",") .. "]"
  end
  local keys = {}
  for k in pairs(val) do
    if type(k) ~= "string" then error("invalid table: mixed or invalid key types") end
    keys[#keys + 1] = k
  end
  table.sort(keys)
  for _, k in ipairs(keys) do
    table.insert(res, encode(k, stack) .. ":" .. encode(val[k], stack))
  end
  stack[val] = nil
  return "{" .. table.concat(res, ",") .. "}"
end

local types = {
  ["nil"] = function() return "null" end,
  table = encode_table,
  string = function(v) return '"' .. v:gsub('[%z\1-\31\\"]', escape) .. '"' end,
  number = function(v)
    if v ~= v or v <= -math.huge or v >= math.huge then error("unexpected number value '" .. tostring(v) .. "'") end
    return string.format("%.14g", v)
  end,
  boolean = tostring,
}
encode = function(val, stack)
  local f = types[type(val)]
  if f then return f(val, stack) end
  error("unexpected type '" .. type(val) .. "'")
end
json.encode = function(val) return (encode(val)) end

nk.register_rpc(function()
  local text = json.encode({ a = 1, b = { 1, 2.5, "x\n\"" }, c = true, d = {} })
  assert(text == '{"a":1,"b":[1,2.5,"x\\n\\""],"c":true,"d":[]}', text)
  assert(nk.json_encode(nk.json_decode(text)) == '{"a":1,"b":[1,2.5,"x\\n\\""],"c":true,"d":{}}')
  local ok, err = pcall(json.encode, { print })
  assert(not ok and err:find("unexpected type 'function'", 1, true))
  local loop = {} loop.self = loop
  assert(not pcall(json.encode, loop))
  return "ok"
end, "rx_json")
return json
