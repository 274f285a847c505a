module throng/examples/zone

go 1.24

require throng/guest v0.0.0

replace throng/guest => ../../../guests/go
