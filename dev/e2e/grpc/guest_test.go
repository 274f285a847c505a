package e2e

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	nakama "github.com/heroiclabs/nakama-common/runtime"

	"throng/guest/runtime"
)

// What of Nakama's Go runtime guests do not have: features that throng does not have, whose messages it does not know,
// and what a guest cannot have. docs/wasm/README.md tells of it.
var missing = map[string][]string{
	"NakamaModule": {
		"Channel", "GetFleetManager", "GetSatori", "Group", "Leaderboard", "PartyList", "Purchase", "Subscription",
		"Tournament", "UserGroupsList",
	},
	"Initializer": {
		"GetConfig", "RegisterConsoleHttp", "RegisterFleetManager", "RegisterHttp", "RegisterLeaderboardReset",
		"RegisterMatchmakerOverride", "RegisterMatchmakerProcessor", "RegisterPurchaseNotification", "RegisterStorageIndex",
		"RegisterSubscriptionNotification", "RegisterTournament",
	},
}

// The calls that the server does not have, as it says itself.
var notBuilt = strings.Split(env("THRONG_NOT_BUILT", ""), ",")

// What only guests have: among it hooks of a call that Nakama has in Lua and JavaScript.
var own = map[string][]string{
	"NakamaModule": {"Call", "RunOnce"},
	"Initializer": {
		"RegisterAfter", "RegisterAfterEvent", "RegisterBefore", "RegisterBeforeEvent",
		"RegisterZoneHit", "RegisterZoneScore", "RegisterZoneSpawn",
	},
}

// A guest's runtime has the methods of nakama-common's, with the same arguments and results, and its messages have the
// same fields and getters: a plugin that is written for the one compiles with the other.
func TestGuestsHaveNakamasRuntime(t *testing.T) {
	c := comparison{t: t, seen: map[reflect.Type]bool{}}
	for name, pair := range map[string][2]reflect.Type{
		"NakamaModule": {reflect.TypeFor[runtime.NakamaModule](), reflect.TypeFor[nakama.NakamaModule]()},
		"Initializer":  {reflect.TypeFor[runtime.Initializer](), reflect.TypeFor[nakama.Initializer]()},
		"Match":        {reflect.TypeFor[runtime.Match](), reflect.TypeFor[nakama.Match]()},
		"MatchData":    {reflect.TypeFor[runtime.MatchData](), reflect.TypeFor[nakama.MatchData]()},
	} {
		ours, theirs := pair[0], pair[1]
		compared := 0
		for index := range theirs.NumMethod() {
			method := theirs.Method(index)
			if same, known := ours.MethodByName(method.Name); known {
				c.same(name+"."+method.Name, same.Type, method.Type)
				compared++
			} else if !begins(method.Name, missing[name]) && !isHookOfMissing(method.Name) {
				t.Errorf("%s.%s is missing", name, method.Name)
			}
		}
		if compared < ours.NumMethod()-len(own[name]) {
			t.Errorf("%s has methods that Nakama does not have: %d of %d are compared", name, compared, ours.NumMethod())
		}
	}
	for _, pair := range [][2]any{
		{runtime.AccountUpdate{}, nakama.AccountUpdate{}}, {runtime.Notification{}, nakama.Notification{}},
		{runtime.StorageWrite{}, nakama.StorageWrite{}}, {runtime.WalletUpdateResult{}, nakama.WalletUpdateResult{}},
	} {
		c.same(fmt.Sprintf("%T", pair[0]), reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1]))
	}
	if len(c.seen) < 100 {
		t.Errorf("only %d types were compared", len(c.seen))
	}
}

func begins(name string, words []string) bool {
	for _, word := range words {
		if strings.HasPrefix(name, word) {
			return true
		}
	}
	return false
}

// isHookOfMissing tells of hooks of calls that throng does not have: their messages are not known.
func isHookOfMissing(name string) bool {
	call, is := strings.CutPrefix(name, "RegisterBefore")
	if !is {
		call, is = strings.CutPrefix(name, "RegisterAfter")
	}
	return is && slices.Contains(notBuilt, call)
}

type comparison struct {
	t    *testing.T
	seen map[reflect.Type]bool
}

// same compares a type of a guest with Nakama's.
func (c comparison) same(where string, ours, theirs reflect.Type) {
	if ours == theirs || c.seen[ours] {
		return
	}
	if ours.Name() != theirs.Name() && !strings.Contains(ours.Name(), "[") && where != "NakamaModule.ReadFile()" {
		c.t.Errorf("%s: %v is not %v", where, ours, theirs)
		return
	}
	if ours.Kind() != theirs.Kind() {
		c.t.Errorf("%s: %v is not %v", where, ours, theirs)
		return
	}
	c.seen[ours] = true
	switch ours.Kind() {
	case reflect.Pointer, reflect.Slice:
		if where == "NakamaModule.ReadFile()" {
			return
		}
		c.same(where, ours.Elem(), theirs.Elem())
		c.getters(where, ours, theirs)
	case reflect.Map:
		c.same(where, ours.Elem(), theirs.Elem())
	case reflect.Func:
		c.function(where, ours, theirs)
	case reflect.Struct:
		c.fields(where, ours, theirs)
	case reflect.Interface:
		if ours.NumMethod() != theirs.NumMethod() && missing[ours.Name()] == nil && !strings.HasPrefix(ours.Name(), "is") {
			c.t.Errorf("%s: %v has %d methods, %v has %d", where, ours, ours.NumMethod(), theirs, theirs.NumMethod())
		}
	}
}

func (c comparison) function(where string, ours, theirs reflect.Type) {
	if ours.NumIn() != theirs.NumIn() || ours.NumOut() != theirs.NumOut() || ours.IsVariadic() != theirs.IsVariadic() {
		c.t.Errorf("%s: %v is not %v", where, ours, theirs)
		return
	}
	for index := range ours.NumIn() {
		c.same(where, ours.In(index), theirs.In(index))
	}
	for index := range ours.NumOut() {
		c.same(where+"()", ours.Out(index), theirs.Out(index))
	}
}

func (c comparison) fields(where string, ours, theirs reflect.Type) {
	names := func(of reflect.Type) []string {
		var names []string
		for index := range of.NumField() {
			if field := of.Field(index); field.IsExported() {
				names = append(names, field.Name)
			}
		}
		sort.Strings(names)
		return names
	}
	if a, b := names(ours), names(theirs); !reflect.DeepEqual(a, b) {
		c.t.Errorf("%s: %v has %v, %v has %v", where, ours, a, theirs, b)
		return
	}
	for _, name := range names(ours) {
		field, _ := ours.FieldByName(name)
		other, _ := theirs.FieldByName(name)
		c.same(fmt.Sprintf("%s, %v.%s", where, ours, name), field.Type, other.Type)
	}
}

// getters compares what messages give, which is how the parts of a choice are compared, too.
func (c comparison) getters(where string, ours, theirs reflect.Type) {
	for index := range theirs.NumMethod() {
		method := theirs.Method(index)
		if !strings.HasPrefix(method.Name, "Get") {
			continue
		}
		if same, known := ours.MethodByName(method.Name); !known {
			c.t.Errorf("%s: %v has no %s", where, ours, method.Name)
		} else {
			c.same(fmt.Sprintf("%s, %v.%s()", where, ours, method.Name), same.Type.Out(0), method.Type.Out(0))
		}
	}
}
