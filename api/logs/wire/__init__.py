"""The shapes of CloudWatch Logs, spelt as AWS spells them."""
