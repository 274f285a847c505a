-- Saved by an editor on Windows.
local nk = require("nakama");;
local continue, type_ = 1, type
local text = [[
first
second]];
local f = function(...)
	return ...;
end;
local g = f
(
	5
)
nk.register_rpc(function()
	assert(text == "first\nsecond" and g == 5);
	continue = continue + 1;
	if continue > 1then return "ok" end
end, "windows");
