"""The monitors' own sending code. Reads lines of JSON: the number of retries, and an event; sends it, and prints a line."""
import json
import sys

import masakarimonitors.conf
from masakarimonitors.ha import masakari

masakarimonitors.conf.CONF(['--config-file', sys.argv[1]], project='masakarimonitors')
sender = masakari.SendNotification()
for line in sys.stdin:
    retries, event = json.loads(line)
    sender.send_notification(retries, 0.2, event)
    print('done', flush=True)
