// Functions that wait for another server, each in a VM of its own meanwhile, and one that never waits.

function hoard(context, logger, nk, payload) {
  const asked = JSON.parse(payload);
  const held = "x".repeat(asked.bytes);
  nk.httpRequest(asked.url, "get", {}, null, 30000);
  return String(held.length);
}

function quick() {
  return "quick";
}

function InitModule(context, logger, nk, initializer) {
  initializer.registerRpc("hoard_js", hoard);
  initializer.registerRpc("quick_js", quick);
}
