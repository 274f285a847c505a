module throng/e2e

go 1.26.5

require (
	github.com/heroiclabs/nakama-common v1.47.0
	github.com/heroiclabs/nakama/v3 v3.40.0
	google.golang.org/grpc v1.82.0
	google.golang.org/protobuf v1.36.11
	throng/guest v0.0.0
)

replace throng/guest => ../../../guests/go

require (
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.29.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
)
