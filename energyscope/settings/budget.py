"""What users state of money and CO2e, in the words of every command that takes it."""

PRICE = "Money for a kWh, in any currency."
CARBON = "Grams of CO2e per kWh."
RATE = "Requests per second, of which a year is counted."
BUDGET = ("price", "carbon", "rate")  # settings, which change nothing that is measured
