local nk = require("nakama")
require("shop")
local shop = package.loaded.shop
nk.register_rpc(function() assert(shop.price("pear") == 3) return "ok" end, "uses_shop")
