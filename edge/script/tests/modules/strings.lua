-- Additions to the string library that other modules use.
local nk = require "nakama"
local string = require "string"
function string.trim(s) return (s:gsub("^%s*(.-)%s*$", "%1")) end
function string:split(sep)
  local fields, pattern = {}, string.format("([^%s]+)", sep or ",")
  self:gsub(pattern, function(c) fields[#fields + 1] = c end)
  return fields
end
string.starts = function(s, start) return s:sub(1, #start) == start end
function table.contains(t, x) for _, v in ipairs(t) do if v == x then return true end end return false end
math.clamp = math.clamp or function(x, lo, hi) return math.max(lo, math.min(hi, x)) end
function math.round(x) return math.floor(x + 0.5) end
nk.register_rpc(function()
  assert((" a b "):trim() == "a b")
  local parts = ("a,b,,c"):split(",")
  assert(#parts == 3 and parts[3] == "c")
  assert(("nakama"):starts("nak") and table.contains(parts, "b"))
  assert(math.round(2.5) == 3 and math.clamp(12, 0, 10) == 10)
  assert(("%d%%"):format(50) == "50%" and ("x"):rep(3, nil) == "xxx")
  assert(("CamelCaseName"):gsub("(%u)", "_%1"):lower():sub(2) == "camel_case_name")
  assert(("a=1;b=2"):gsub("(%w+)=(%w+)", "%2=%1") == "1=a;2=b")
  assert(tostring(("k = v"):match("^(%w+)%s*=%s*(%w+)$")) == "k")
  local hex = ("ABC"):gsub(".", function(c) return ("%02X"):format(c:byte()) end)
  assert(hex == "414243" and ("abc"):reverse() == "cba" and ("a\0b"):len() == 3)
  return "ok"
end, "strings")
