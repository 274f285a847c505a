module throng/guest

go 1.24
