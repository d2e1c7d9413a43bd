"""Open WebUI's messages become Responses input items. Pure: values in, values out."""
