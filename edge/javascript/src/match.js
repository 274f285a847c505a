// The prelude's part for a VM that runs a match: its callbacks, and its state, which stays here.

(function (shared, entry) {
  'use strict';

  const { Failed, context, freeze, isArray, logger, native, nk, node, registry } = shared;

  let callbacks, state, matchId, label, tickRate, dispatcher;

  function matchContext() {
    const ctx = context('match');
    ctx.matchId = matchId;
    ctx.matchNode = node;
    if (tickRate !== undefined) {
      ctx.matchLabel = label;
      ctx.matchTickRate = tickRate;
    }
    return ctx;
  }

  const presences = (flat) => {
    const list = [];
    for (let at = 0; at < flat.length; at += 4) {
      list.push({ userId: flat[at], sessionId: flat[at + 1], username: flat[at + 2], node, reason: flat[at + 3] });
    }
    return list;
  };

  const isObject = (value) => value !== null && typeof value === 'object' && !isArray(value);

  // Takes the state out of what a callback returned; false if the match is to end.
  function goesOn(callback, returned) {
    if (returned === null || returned === undefined) return false;
    if (!isObject(returned) || !isObject(returned.state)) {
      throw new Failed(`${callback} is expected to return an object with 'state' object property`);
    }
    state = returned.state;
    return true;
  }

  entry.matchOpen = (name, id) => {
    callbacks = registry.matches[name];
    matchId = id;
    dispatcher = freeze(native.dispatcher());
    registry.registered = registry.matches = undefined;
  };

  entry.matchInit = (params) => {
    const { matchInit } = callbacks;
    const returned = matchInit.call(null, matchContext(), logger, nk, params);
    if (!isObject(returned)) {
      throw new Failed("matchInit is expected to return an object with 'state', 'tickRate' and 'label' properties");
    }
    const rate = returned.tickRate;
    if (rate === undefined) throw new Failed("matchInit return value has no 'tickRate' property");
    if (!Number.isInteger(rate) || rate < 1 || rate > 60) {
      throw new Failed("matchInit 'tickRate' must be a number between 1 and 60");
    }
    const given = returned.label ?? '';
    if (typeof given !== 'string') throw new Failed("matchInit 'label' value must be a string");
    if (!isObject(returned.state)) {
      throw new Failed("matchInit is expected to return an object with a 'state' property");
    }
    state = returned.state;
    tickRate = rate;
    label = given;
    return [rate, given];
  };

  entry.matchLabel = (now) => {
    label = now;
  };

  entry.matchJoinAttempt = (tick, user, vars, metadata) => {
    const [userId, sessionId, username, exp, clientIp, clientPort] = user;
    const ctx = matchContext();
    ctx.userId = userId;
    ctx.username = username;
    if (vars !== undefined) ctx.vars = vars;
    ctx.userSessionExp = exp;
    ctx.sessionId = sessionId;
    if (clientIp !== undefined) ctx.clientIp = clientIp;
    if (clientPort !== undefined) ctx.clientPort = clientPort;
    const { matchJoinAttempt } = callbacks;
    const presence = { userId, sessionId, username, node };
    const returned =
      matchJoinAttempt.call(null, ctx, logger, nk, dispatcher, tick, state, presence, metadata);
    if (!goesOn('matchJoinAttempt', returned)) return null;
    const { accept, rejectMessage } = returned;
    if (typeof accept !== 'boolean') throw new Failed("matchJoinAttempt 'accept' property must be a boolean");
    if (rejectMessage !== undefined && typeof rejectMessage !== 'string') {
      throw new Failed("matchJoinAttempt 'rejectMessage' property must be a string");
    }
    return [accept, rejectMessage ?? ''];
  };

  const run = (name, tick, argument) => {
    const callback = callbacks[name];
    return callback.call(null, matchContext(), logger, nk, dispatcher, tick, state, argument);
  };

  entry.matchJoin = (tick, flat) => goesOn('matchJoin', run('matchJoin', tick, presences(flat)));
  entry.matchLeave = (tick, flat) => goesOn('matchLeave', run('matchLeave', tick, presences(flat)));
  entry.matchTerminate = (tick, graceSeconds) =>
    goesOn('matchTerminate', run('matchTerminate', tick, graceSeconds));

  entry.matchLoop = (tick, flat) => {
    const messages = [];
    for (let at = 0; at < flat.length; at += 7) {
      const sender = { userId: flat[at], sessionId: flat[at + 1], username: flat[at + 2], node };
      messages.push({
        sender, persistence: true, status: '', opCode: flat[at + 3], data: flat[at + 4], reliable: flat[at + 5],
        receiveTimeMs: flat[at + 6],
      });
    }
    return goesOn('matchLoop', run('matchLoop', tick, messages));
  };

  entry.matchSignal = (tick, data) => {
    const returned = run('matchSignal', tick, data);
    if (!goesOn('matchSignal', returned)) return null;
    const answer = returned.data ?? '';
    if (typeof answer !== 'string') throw new Failed("matchSignal 'data' property must be a string");
    return answer;
  };
})
