//go:build wasip1

package runtime

import (
	"context"
	"fmt"

	"throng/guest/wire"
)

// callContext has the values of a call, which are decoded when the first of them is asked for: most functions ask
// for none or one of what a request has.
type callContext struct {
	context.Context
	bytes  []byte
	values map[string]any
}

// valuesRoom is what the values of most calls have room in, so that those of a match's calls have
// blocks of one size.
const valuesRoom = 256

// newContext is a context with these values, which it copies: whoever keeps it may ask later.
func newContext(values []byte) *callContext {
	return &callContext{Context: context.Background(), bytes: append(make([]byte, 0, valuesRoom), values...)}
}

func (c *callContext) Value(key any) any {
	if name, is := key.(string); is {
		if value, known := c.all()[name]; known {
			return value
		}
		return about[name]
	}
	return c.Context.Value(key)
}

// all gives the values the types that they have in Nakama.
func (c *callContext) all() map[string]any {
	if c.values != nil {
		return c.values
	}
	// Bytes that are no value have no values: the server writes none.
	decoded, _ := wire.Decode(c.bytes)
	values := members(decoded)
	if values == nil {
		values = map[string]any{}
	}
	if vars, is := values[RUNTIME_CTX_VARS]; is {
		values[RUNTIME_CTX_VARS] = texts(vars)
	}
	if rate, is := values[RUNTIME_CTX_MATCH_TICK_RATE].(int64); is {
		values[RUNTIME_CTX_MATCH_TICK_RATE] = int(rate)
	}
	for _, name := range []string{RUNTIME_CTX_HEADERS, RUNTIME_CTX_QUERY_PARAMS} {
		if pairs, is := values[name].([]any); is {
			lists := map[string][]string{}
			for _, pair := range pairs {
				if parts, _ := pair.([]any); len(parts) == 2 {
					lists[text(parts[0])] = append(lists[text(parts[0])], text(parts[1]))
				}
			}
			values[name] = lists
		}
	}
	c.bytes, c.values = nil, values
	return values
}

func text(value any) string {
	text, _ := value.(string)
	return text
}

func whole(value any) int64 {
	number, _ := value.(int64)
	return number
}

func members(value any) map[string]any {
	members, _ := value.(map[string]any)
	return members
}

func texts(value any) map[string]string {
	members, _ := value.(map[string]any)
	texts := make(map[string]string, len(members))
	for name, member := range members {
		texts[name] = text(member)
	}
	return texts
}

func errorf(format string, v ...any) error { return fmt.Errorf(format, v...) }
