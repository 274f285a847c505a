// Calls the methods of NakamaModule that take and give plain values, for the test of the same idea
// (dev/e2e/guest_go.test.mjs), and answers with what they gave.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"throng/guest/runtime"
)

func init() { runtime.Module(InitModule) }

func main() {}

type rpc = func(context.Context, runtime.Logger, *sql.DB, runtime.NakamaModule, string) (string, error)

func InitModule(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, initializer runtime.Initializer) error {
	for id, function := range map[string]rpc{
		"users": users, "social": social, "machine": machine, "refused": refused, "caller": caller, "sized": sized,
	} {
		if err := initializer.RegisterRpc(id, function); err != nil {
			return err
		}
	}
	return initializer.RegisterMatch("none", func(context.Context, runtime.Logger, *sql.DB, runtime.NakamaModule) (runtime.Match, error) {
		return nil, nil
	})
}

// first gives the first of these errors that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func answer(value map[string]any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	bytes, err := json.Marshal(value)
	return string(bytes), err
}

// users makes an account, and takes it through what an account can go through.
func users(ctx context.Context, _ runtime.Logger, _ *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	id, name, created, err := nk.AuthenticateCustom(ctx, "custom-"+payload, "name-"+payload, true)
	if err != nil {
		return "", err
	}
	_, _, again, err := nk.AuthenticateCustom(ctx, "custom-"+payload, "", false)
	if err := first(err,
		nk.LinkDevice(ctx, id, "device-0123456789-"+payload),
		nk.LinkEmail(ctx, id, payload+"@example.com", "password"),
		nk.AccountUpdateId(ctx, id, "", map[string]any{"level": 4}, "Shown", "", "", "en", ""),
	); err != nil {
		return "", err
	}
	byDevice, _, _, err := nk.AuthenticateDevice(ctx, "device-0123456789-"+payload, "", false)
	byEmail, _, _, errEmail := nk.AuthenticateEmail(ctx, payload+"@example.com", "password", "", false)
	token, expires, errToken := nk.AuthenticateTokenGenerate(id, "", 0, map[string]string{"from": "go"})
	if err := first(err, errEmail, errToken,
		nk.UnlinkEmail(ctx, id, payload+"@example.com"), nk.UnlinkDevice(ctx, id, "device-0123456789-"+payload),
		nk.SessionLogout(id, "", ""), nk.UsersBanId(ctx, []string{id}),
	); err != nil {
		return "", err
	}
	_, _, _, banned := nk.AuthenticateCustom(ctx, "custom-"+payload, "", false)
	account, err := nk.Call("account_get_id", id)
	if err := first(err, nk.UsersUnbanId(ctx, []string{id}), nk.AccountDeleteId(ctx, id, false)); err != nil {
		return "", err
	}
	_, gone := nk.Call("account_get_id", id)
	shown, _ := account[0].(map[string]any)
	return answer(map[string]any{
		"created": created, "again": again, "name": name, "same": byDevice == id && byEmail == id,
		"token": len(token) > 0 && expires > 0, "isGone": gone != nil, "isBanned": banned != nil,
		"shown": shown["display_name"], "lang": shown["lang_tag"], "metadata": shown["metadata"],
	}, nil)
}

// social has the caller befriend, and be in a stream.
func social(ctx context.Context, _ runtime.Logger, _ *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	me, _ := ctx.Value(runtime.RUNTIME_CTX_USER_ID).(string)
	name, _ := ctx.Value(runtime.RUNTIME_CTX_USERNAME).(string)
	session, _ := ctx.Value(runtime.RUNTIME_CTX_SESSION_ID).(string)
	other, _, _, err := nk.AuthenticateCustom(ctx, "friend-"+payload, "", true)
	if err := first(err,
		nk.FriendsAdd(ctx, me, name, []string{other}, nil, map[string]any{"met": "arena"}),
		nk.FriendMetadataUpdate(ctx, me, other, map[string]any{"met": "lobby"}),
	); err != nil {
		return "", err
	}
	friends, err := nk.Call("friends_list", me, 10)
	if err := first(err,
		nk.FriendsDelete(ctx, me, name, []string{other}, nil), nk.FriendsBlock(ctx, me, name, []string{other}, nil),
		nk.StatusFollow(session, []string{other}), nk.StatusUnfollow(session, []string{other}),
		nk.NotificationSendAll(ctx, "season", map[string]any{"season": 4}, 2, false),
	); err != nil {
		return "", err
	}
	isNew, err := nk.StreamUserJoin(100, "", "", "lobby", me, session, false, false, "here")
	if err := first(err, nk.StreamUserUpdate(100, "", "", "lobby", me, session, false, false, "ready")); err != nil {
		return "", err
	}
	count, err := nk.StreamCount(100, "", "", "lobby")
	if err := first(err, nk.StreamUserLeave(100, "", "", "lobby", me, session)); err != nil {
		return "", err
	}
	left, err := nk.StreamCount(100, "", "", "lobby")
	if err := first(err, nk.StreamClose(100, "", "", "lobby")); err != nil {
		return "", err
	}
	rows, _ := friends[0].([]any)
	friend, _ := rows[0].(map[string]any)
	return answer(map[string]any{"met": friend["metadata"], "isNew": isNew, "count": count, "left": left}, nil)
}

func machine(_ context.Context, _ runtime.Logger, _ *sql.DB, nk runtime.NakamaModule, _ string) (string, error) {
	next, err := nk.CronNext("0 0 * * 1", 1700000000)
	before, errBefore := nk.CronPrev("@daily", 1700000000)
	nk.MetricsCounterAdd("go_kills", map[string]string{"weapon": "bow"}, 2)
	nk.MetricsGaugeSet("go_stock", nil, 1.5)
	nk.MetricsTimerRecord("go_round", nil, 3*time.Second)
	return answer(map[string]any{"next": next, "before": before}, first(err, errBefore))
}

// caller tells what is known of who calls, whose values are read when they are asked for.
func caller(ctx context.Context, _ runtime.Logger, _ *sql.DB, _ runtime.NakamaModule, _ string) (string, error) {
	vars, _ := ctx.Value(runtime.RUNTIME_CTX_VARS).(map[string]string)
	headers, _ := ctx.Value(runtime.RUNTIME_CTX_HEADERS).(map[string][]string)
	queries, _ := ctx.Value(runtime.RUNTIME_CTX_QUERY_PARAMS).(map[string][]string)
	expiry, _ := ctx.Value(runtime.RUNTIME_CTX_USER_SESSION_EXP).(int64)
	return answer(map[string]any{
		"mode": ctx.Value(runtime.RUNTIME_CTX_MODE), "user": ctx.Value(runtime.RUNTIME_CTX_USER_ID), "vars": vars,
		"header": headers["X-Test"], "query": queries["twice"], "expires": expiry > 0,
		"node": ctx.Value(runtime.RUNTIME_CTX_NODE), "nothing": ctx.Value("no such value"),
	}, nil)
}

// sized answers with so many letters, or panics.
func sized(_ context.Context, _ runtime.Logger, _ *sql.DB, _ runtime.NakamaModule, payload string) (string, error) {
	count, err := strconv.Atoi(payload)
	if err != nil {
		panic("no number")
	}
	return strings.Repeat("x", count), nil
}

// refused says what the server says of what it does not have, and of what is wrong.
func refused(ctx context.Context, _ runtime.Logger, _ *sql.DB, nk runtime.NakamaModule, _ string) (string, error) {
	_, missing := nk.Call("leaderboard_create", "best", true)
	wrong := nk.LinkDevice(ctx, "no id", "device-0123456789")
	_, none := nk.MatchCreate(ctx, "none", nil)
	return answer(map[string]any{"missing": fmt.Sprint(missing), "wrong": fmt.Sprint(wrong), "none": fmt.Sprint(none)}, nil)
}
