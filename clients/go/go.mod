module leafd.invalid/leafd

go 1.19
