//go:build wasip1

package runtime

import (
	"errors"
	"runtime/debug"

	"throng/guest/wire"
)

// matchGCPercent makes Go collect a match's heap when it has grown by a quarter, and from 1 MiB on, not by as much again
// and from 4 MiB: there are many matches, each with an instance of its own, and what a heap has taken once stays taken.
const matchGCPercent = 25

type presence struct {
	userID, sessionID, username string
	reason                      PresenceReason
}

func (p presence) GetUserId() string         { return p.userID }
func (p presence) GetSessionId() string      { return p.sessionID }
func (p presence) GetUsername() string       { return p.username }
func (p presence) GetNodeId() string         { return text(about[RUNTIME_CTX_NODE]) }
func (p presence) GetReason() PresenceReason { return p.reason }
func (p presence) GetHidden() bool           { return false }
func (p presence) GetPersistence() bool      { return false }
func (p presence) GetStatus() string         { return "" }

type matchData struct {
	presence
	opCode   int64
	data     []byte
	reliable bool
	timeMs   int64
}

func (m matchData) GetOpCode() int64      { return m.opCode }
func (m matchData) GetData() []byte       { return m.data }
func (m matchData) GetReliable() bool     { return m.reliable }
func (m matchData) GetReceiveTime() int64 { return m.timeMs }

type dispatcher struct{}

func (dispatcher) send(name string, opCode int64, data []byte, to []Presence, sender Presence, reliable bool) error {
	var sessions, from any
	if to != nil {
		sessions = sessionsOf(to)
	}
	if sender != nil {
		from = []any{sender.GetUserId(), sender.GetSessionId(), sender.GetUsername()}
	}
	_, err := wire.Call(name, opCode, data, sessions, from, reliable)
	return err
}

func (d dispatcher) BroadcastMessage(opCode int64, data []byte, presences []Presence, sender Presence, reliable bool) error {
	return d.send("broadcast_message", opCode, data, presences, sender, reliable)
}

func (d dispatcher) BroadcastMessageDeferred(opCode int64, data []byte, presences []Presence, sender Presence, reliable bool) error {
	return d.send("broadcast_message_deferred", opCode, data, presences, sender, reliable)
}

func (dispatcher) MatchKick(presences []Presence) error {
	_, err := wire.Call("match_kick", sessionsOf(presences))
	return err
}

func (dispatcher) MatchLabelUpdate(label string) error {
	_, err := wire.Call("match_label_update", label)
	return err
}

func sessionsOf(presences []Presence) []any {
	sessions := make([]any, len(presences))
	for index, presence := range presences {
		sessions[index] = presence.GetSessionId()
	}
	return sessions
}

func presenceOf(parts []any) presence {
	if len(parts) < 3 {
		return presence{}
	}
	who := presence{userID: text(parts[0]), sessionID: text(parts[1]), username: text(parts[2])}
	if len(parts) == 4 {
		who.reason = PresenceReason(whole(parts[3]))
	}
	return who
}

func presencesOf(value any) []Presence {
	items, _ := value.([]any)
	presences := make([]Presence, len(items))
	for index, item := range items {
		parts, _ := item.([]any)
		presences[index] = presenceOf(parts)
	}
	return presences
}

func messagesOf(value any) []MatchData {
	items, _ := value.([]any)
	messages := make([]MatchData, 0, len(items))
	for _, item := range items {
		if parts, _ := item.([]any); len(parts) == 7 {
			message := matchData{presence: presenceOf(parts), data: []byte(text(parts[4]))}
			message.opCode, _ = parts[3].(int64)
			message.reliable, _ = parts[5].(bool)
			message.timeMs, _ = parts[6].(int64)
			messages = append(messages, message)
		}
	}
	return messages
}

// callMatch runs a callback of the match of this instance.
func callMatch(ctx *callContext, kind, name string, arguments []any) (any, error) {
	if len(arguments) < 2 {
		return nil, errors.New("a callback without its arguments")
	}
	tick, _ := arguments[0].(int64)
	first, d := arguments[1], dispatcher{}
	if kind == "match_init" {
		debug.SetGCPercent(matchGCPercent)
		open := matches[name]
		if open == nil {
			return nil, errorf("the match %s is not registered", name)
		}
		var err error
		if running, err = open(ctx, log, nil, nk); err != nil {
			return nil, err
		}
		params, _ := first.(map[string]any)
		rate, label := 0, ""
		state, rate, label = running.MatchInit(ctx, log, nil, nk, params)
		if state == nil {
			return nil, errors.New("MatchInit has returned no state")
		}
		return []any{rate, label}, nil
	}
	if running == nil {
		return nil, errors.New("no match runs here")
	}
	switch kind {
	case "match_join_attempt":
		parts, _ := first.([]any)
		if len(parts) == 7 && len(arguments) == 3 {
			own := ctx.all()
			own[RUNTIME_CTX_USER_ID], own[RUNTIME_CTX_SESSION_ID] = parts[0], parts[1]
			own[RUNTIME_CTX_USERNAME], own[RUNTIME_CTX_VARS] = parts[2], texts(parts[3])
			own[RUNTIME_CTX_USER_SESSION_EXP] = parts[4]
			own[RUNTIME_CTX_CLIENT_IP], own[RUNTIME_CTX_CLIENT_PORT] = parts[5], parts[6]
			allow, reason := false, ""
			state, allow, reason = running.MatchJoinAttempt(ctx, log, nil, nk, d, tick, state, presenceOf(parts), texts(arguments[2]))
			if state == nil {
				return nil, nil
			}
			return []any{allow, reason}, nil
		}
		return nil, errors.New("a join without its presence")
	case "match_join":
		state = running.MatchJoin(ctx, log, nil, nk, d, tick, state, presencesOf(first))
	case "match_leave":
		state = running.MatchLeave(ctx, log, nil, nk, d, tick, state, presencesOf(first))
	case "match_loop":
		state = running.MatchLoop(ctx, log, nil, nk, d, tick, state, messagesOf(first))
	case "match_terminate":
		grace, _ := first.(int64)
		state = running.MatchTerminate(ctx, log, nil, nk, d, tick, state, int(grace))
	case "match_signal":
		answer := ""
		if state, answer = running.MatchSignal(ctx, log, nil, nk, d, tick, state, text(first)); state == nil {
			return nil, nil
		}
		return answer, nil
	default:
		return nil, errorf("this module knows no %s", kind)
	}
	return state != nil, nil
}
