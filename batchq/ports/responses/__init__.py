"""The responses of the API, as the API makes them and the command line reads them. Decision 0091."""
