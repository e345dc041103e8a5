"""The shapes of CloudWatch Logs, as AWS spells them."""
