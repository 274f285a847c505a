// Package wrapperspb has values that may be unset, under the names of google.golang.org/protobuf/types/known/wrapperspb.
// Not here: what needs that module, such as protobuf's own bytes.
package wrapperspb

import "throng/guest/wire"

// wrapper is what all of them are.
type wrapper[T any] struct {
	Value T `json:"value,omitempty"`
}

// FillPlain takes what the server gives for it.
func (w *wrapper[T]) FillPlain(value any) error { return wire.Fill(&w.Value, value) }

// Plain is what the server is given for it.
func (w *wrapper[T]) Plain() any { return wire.Plain(w.Value) }

// GetValue is the value, or zero if it is unset.
func (w *wrapper[T]) GetValue() T {
	if w == nil {
		var unset T
		return unset
	}
	return w.Value
}

// Values that may be unset. A pointer to one is nil if it is.
type (
	BoolValue   = wrapper[bool]
	Int32Value  = wrapper[int32]
	UInt32Value = wrapper[uint32]
	Int64Value  = wrapper[int64]
	UInt64Value = wrapper[uint64]
	FloatValue  = wrapper[float32]
	DoubleValue = wrapper[float64]
	StringValue = wrapper[string]
	BytesValue  = wrapper[[]byte]
)

// Bool is a value that is set.
func Bool(v bool) *BoolValue { return &BoolValue{Value: v} }

// Int32 is a value that is set.
func Int32(v int32) *Int32Value { return &Int32Value{Value: v} }

// UInt32 is a value that is set.
func UInt32(v uint32) *UInt32Value { return &UInt32Value{Value: v} }

// Int64 is a value that is set.
func Int64(v int64) *Int64Value { return &Int64Value{Value: v} }

// UInt64 is a value that is set.
func UInt64(v uint64) *UInt64Value { return &UInt64Value{Value: v} }

// Float is a value that is set.
func Float(v float32) *FloatValue { return &FloatValue{Value: v} }

// Double is a value that is set.
func Double(v float64) *DoubleValue { return &DoubleValue{Value: v} }

// String is a value that is set.
func String(v string) *StringValue { return &StringValue{Value: v} }

// Bytes is a value that is set.
func Bytes(v []byte) *BytesValue { return &BytesValue{Value: v} }
