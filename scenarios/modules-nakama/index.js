// The echo of the `rpc-js` scenario, for a real Nakama: throng does not run JavaScript yet, and says
// so when it finds this file. Nakama runs `index.js` of its `--runtime.path` when it starts.

function echo(ctx, logger, nk, payload) {
  return payload;
}

function InitModule(ctx, logger, nk, initializer) {
  initializer.registerRpc("echo_js", echo);
}

// Keeps a bundler from dropping what nothing here calls.
!InitModule && InitModule.bind(null);
