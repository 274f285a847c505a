// The echo of the `rpc-js` scenario, and that of `rpc-json --rpc echo_json_js`, for throng and for a real Nakama: both
// run `index.js` of their `--runtime.path` when they start.

function echo(ctx, logger, nk, payload) {
  return payload;
}

// The same for JSON: taken apart, and put together again.
function echoJson(ctx, logger, nk, payload) {
  return JSON.stringify(JSON.parse(payload));
}

function InitModule(ctx, logger, nk, initializer) {
  initializer.registerRpc("echo_js", echo);
  initializer.registerRpc("echo_json_js", echoJson);
}

// Keeps a bundler from dropping what nothing here calls.
!InitModule && InitModule.bind(null);
