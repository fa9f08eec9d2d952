"""A zoo behind HTTP, as other people's endpoints are: for demos, tests and capacity planning. Never for production."""
