"""Files written by others: reads them safely, and notices changes."""
