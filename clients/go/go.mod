module tarry

go 1.19
