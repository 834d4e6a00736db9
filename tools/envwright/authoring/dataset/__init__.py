"""Recognition of datasets: the roles of columns, the format of answers, and the environment that fits."""
