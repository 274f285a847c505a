// Package timestamppb has moments, under the names of google.golang.org/protobuf/types/known/timestamppb. Not here: what
// needs that module, such as protobuf's own bytes.
package timestamppb

import (
	"fmt"
	"time"
)

// Timestamp is a moment.
type Timestamp struct {
	// Seconds since 1970.
	Seconds int64 `json:"seconds,omitempty"`
	// Nanos are the nanoseconds behind them, below a milliard.
	Nanos int32 `json:"nanos,omitempty"`
}

// New is this moment.
func New(t time.Time) *Timestamp {
	return &Timestamp{Seconds: t.Unix(), Nanos: int32(t.Nanosecond())}
}

// Now is the moment of the call.
func Now() *Timestamp { return New(time.Now()) }

// AsTime is the moment as time.Time, in UTC; of nil it is 1970.
func (t *Timestamp) AsTime() time.Time {
	return time.Unix(t.GetSeconds(), int64(t.GetNanos())).UTC()
}

// GetSeconds is zero of nil.
func (t *Timestamp) GetSeconds() int64 {
	if t == nil {
		return 0
	}
	return t.Seconds
}

// GetNanos is zero of nil.
func (t *Timestamp) GetNanos() int32 {
	if t == nil {
		return 0
	}
	return t.Nanos
}

// IsValid tells whether it is a moment.
func (t *Timestamp) IsValid() bool {
	return t != nil && t.Nanos >= 0 && t.Nanos < 1e9
}

// String is the moment as RFC 3339 has it.
func (t *Timestamp) String() string { return t.AsTime().Format(time.RFC3339Nano) }

// FillPlain takes RFC 3339, as messages have it, or unix seconds, as the server's functions do.
func (t *Timestamp) FillPlain(value any) error {
	switch v := value.(type) {
	case int64:
		*t = Timestamp{Seconds: v}
		return nil
	case string:
		moment, err := time.Parse(time.RFC3339Nano, v)
		if err == nil {
			*t = *New(moment)
		}
		return err
	default:
		return fmt.Errorf("a %T is no time", value)
	}
}

// Plain is the moment as messages have it.
func (t *Timestamp) Plain() any { return t.String() }
